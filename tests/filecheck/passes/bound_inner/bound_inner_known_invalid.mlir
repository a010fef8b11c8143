// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,specialize-inner{bytes=56},bound-inner{least=32}" --verify-diagnostics

// expected-error@unknown {{rows have 14 elements, which the code knows already}}
func.func @gather(%data: tensor<9x14xf32>, %indices: tensor<70xi64>) -> tensor<70x14xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x14xf32>, tensor<70xi64> -> tensor<70x14xf32>
  func.return %r : tensor<70x14xf32>
}
