"""What commands put into an AWS account: dashboards and alarms."""
