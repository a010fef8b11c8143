// RUN: gathernest-opt %s -p "nest,drop-unit-loops,prefetch{what=slices loop=indices lines=2}" --verify-diagnostics

// expected-error@unknown {{lines is an option of what=rows, got lines=2 for slices}}
func.func @gather(%grad: tensor<70x6xf32>, %indices: tensor<70xi64>) -> tensor<9x6xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero : tensor<70x6xf32>, tensor<70xi64> -> tensor<9x6xf32>
  func.return %r : tensor<9x6xf32>
}
