// RUN: gathernest-opt %s -p "nest,check-indices{how=counted bits=8}" --verify-diagnostics

// expected-error@unknown {{bits is an option of a staged check, got how=counted}}
func.func @gather(%data: tensor<70xf32>, %indices: tensor<9xi64>) -> tensor<9xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<70xf32>, tensor<9xi64> -> tensor<9xf32>
  func.return %r : tensor<9xf32>
}
