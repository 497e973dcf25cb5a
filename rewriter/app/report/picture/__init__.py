"""Pictures of parts of a graph: what is to be drawn, where it goes, and how it is written (SVG, DOT, Mermaid)."""
