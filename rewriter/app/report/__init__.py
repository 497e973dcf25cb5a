"""Reports for people and for machines. They are made of logs and import no other part of the program."""
