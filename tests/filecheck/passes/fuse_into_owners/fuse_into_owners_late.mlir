// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,owner-computes{owners=2},tile-loops{loops=clear_axis sizes=2},fuse-into-owners" --verify-diagnostics

// expected-error@unknown {{run it before other passes change that nest, for an axis of more than one position}}
func.func @gather(%grad: tensor<70x6xf32>, %indices: tensor<70xi64>) -> tensor<9x6xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero scale 2.0 : tensor<70x6xf32>, tensor<70xi64> -> tensor<9x6xf32>
  func.return %r : tensor<9x6xf32>
}
