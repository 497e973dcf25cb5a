"""Commands about rules and their compiler."""
