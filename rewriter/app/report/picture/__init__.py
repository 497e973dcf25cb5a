"""Pictures of parts of a graph: their shapes and edges, the layout, and the file formats (SVG, DOT, Mermaid)."""
