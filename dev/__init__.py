"""What builds, checks and measures Tessera; no part of an installation."""
