"""Commands that change models as their user says."""
