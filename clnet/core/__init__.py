"""What everything is made of: shapes and dtypes, ops, tensors, gradients, state, precision."""
