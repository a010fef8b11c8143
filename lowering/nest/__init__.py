"""What the passes share: questions about a loop nest, and ways to build and split loops."""
