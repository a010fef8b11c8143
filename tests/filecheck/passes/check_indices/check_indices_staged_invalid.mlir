// RUN: gathernest-opt %s -p "nest,drop-unit-loops,check-indices{how=staged bits=8}" --verify-diagnostics

// expected-error@unknown {{expected one loop that checks all indices, which have no gaps}}
func.func @gather(%grad: tensor<70x40xf32>, %indices: tensor<70x2xi64>) -> tensor<9x8x40xf32> {
  %r = gather.gather_nd_grad %grad, %indices batch_dims 0 bounds error : tensor<70x40xf32>, tensor<70x2xi64> -> tensor<9x8x40xf32>
  func.return %r : tensor<9x8x40xf32>
}
