"""One module per area of the wire; each lists its endpoints in ``ENDPOINTS``."""
