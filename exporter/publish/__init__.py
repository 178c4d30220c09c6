"""Publishers: each turns a snapshot into what one kind of reader expects."""
