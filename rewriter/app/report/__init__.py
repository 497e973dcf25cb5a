"""What happened, for people and for machines: reports made of logs, knowing nothing else of the program."""
