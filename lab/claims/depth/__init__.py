"""Fresh models and toys: residual stream, gradients by depth, weights before a norm."""
