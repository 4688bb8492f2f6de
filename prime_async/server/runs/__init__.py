"""What the platform keeps of runs that report to it, and how it notices that one fell silent."""
