// RUN: gathernest-opt %s -p "nest,drop-unit-loops,specialize-inner{bytes=80}" --verify-diagnostics

// expected-error@unknown {{rows have 40 elements, and the bytes of 20 are given}}
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
