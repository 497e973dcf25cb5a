"""What a run did, as data: firings, what was blocked, pictures of the graph before and after, and where the time went."""
