"""What leaves this machine for a skill: which hosts, to which addresses, and pages as text."""
