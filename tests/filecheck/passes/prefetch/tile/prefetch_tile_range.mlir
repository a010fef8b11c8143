// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,owner-computes{owners=2},tile-loops{loops=indices sizes=16},compact-indices{loop=indices_i},prefetch{what=tile loop=indices_i ahead=65 locality=2}" --verify-diagnostics

// expected-error@unknown {{expected ahead of 1 to 64, got 65}}
func.func @gather(%grad: tensor<70xf32>, %indices: tensor<70xi64>) -> tensor<9xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds unchecked scale 2.0 : tensor<70xf32>, tensor<70xi64> -> tensor<9xf32>
  func.return %r : tensor<9xf32>
}
