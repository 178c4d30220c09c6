"""What an endpoint picker reads, how it is set up for that, and what it would make of it."""
