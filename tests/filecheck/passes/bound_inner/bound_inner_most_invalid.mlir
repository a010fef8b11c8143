// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,bound-inner{least=36 most=32}" --verify-diagnostics

// expected-error@unknown {{expected most from 36 on, or 0, got 32}}
func.func @gather(%data: tensor<9x14xf32>, %indices: tensor<70xi64>) -> tensor<70x14xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x14xf32>, tensor<70xi64> -> tensor<70x14xf32>
  func.return %r : tensor<70x14xf32>
}
