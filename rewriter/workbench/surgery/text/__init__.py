"""Models as text that people read and edit, and as models again."""
