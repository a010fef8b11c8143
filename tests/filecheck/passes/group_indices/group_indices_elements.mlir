// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,group-indices{loop=indices}" --verify-diagnostics

// expected-error@unknown {{expected indices to stand in no other loop, and not to be tiled}}
func.func @gather(%grad: tensor<2x70x6xf32>, %indices: tensor<70xi64>) -> tensor<2x9x6xf32> {
  %r = gather.gather_grad %grad, %indices axis 1 batch_dims 0 bounds zero scale 2.0 : tensor<2x70x6xf32>, tensor<70xi64> -> tensor<2x9x6xf32>
  func.return %r : tensor<2x9x6xf32>
}
