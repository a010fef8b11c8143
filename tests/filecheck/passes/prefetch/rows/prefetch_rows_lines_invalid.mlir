// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,prefetch{what=rows loop=indices lines=65}" --verify-diagnostics

// expected-error@unknown {{expected lines of 0 to 64, got 65}}
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
