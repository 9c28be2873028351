"""What tasks and the machine use, as totals, from the kernel's files."""
