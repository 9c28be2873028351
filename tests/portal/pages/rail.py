"""What could start loads behind Home and the form of a notebook as fragments of their own."""

RAIL, PROMISES = ({"HX-Request": "true", "HX-Target": target} for target in ("rail", "promises"))
BUSY = "#rail [aria-busy]"
"""In a browser: what stands there until it has loaded."""
