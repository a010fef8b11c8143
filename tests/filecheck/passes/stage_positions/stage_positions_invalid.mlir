// RUN: gathernest-opt %s -p "canonical,lower-gather-to-nest,lower-gradient-to-nest,fold-bounds,drop-unit-loops,stage-positions{bits=8}" --verify-diagnostics

// expected-error@unknown {{expected a gather, and this is a gradient}}
func.func @gather(%grad: tensor<70x40xf32>, %indices: tensor<70xi64>) -> tensor<9x40xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds error : tensor<70x40xf32>, tensor<70xi64> -> tensor<9x40xf32>
  func.return %r : tensor<9x40xf32>
}
