"""What a norm forgets: invariances, gradients, and the two norms in terms of each other."""
