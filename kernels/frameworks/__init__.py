"""What speaks to one framework: gathers of PyTorch's tensors, which `gathernest.torch` offers."""
