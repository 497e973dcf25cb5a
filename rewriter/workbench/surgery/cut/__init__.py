"""Parts of models as models of their own."""
