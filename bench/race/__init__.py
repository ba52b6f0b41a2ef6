"""The race: every case through every library that is installed, each in a process of its own."""
