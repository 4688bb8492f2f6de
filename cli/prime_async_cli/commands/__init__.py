"""One module per group or command; imported when used."""
