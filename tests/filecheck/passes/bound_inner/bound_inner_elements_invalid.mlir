// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,bound-inner{least=32}" --verify-diagnostics

// expected-error@unknown {{expected one dimension inner}}
func.func @gather(%data: tensor<9xf32>, %indices: tensor<7x70xi64>) -> tensor<7x70xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9xf32>, tensor<7x70xi64> -> tensor<7x70xf32>
  func.return %r : tensor<7x70xf32>
}
