// RUN: gathernest-opt %s -p erase-element-type --verify-diagnostics --split-input-file

// expected-error@unknown {{elements of type !gather.bytes<0, "void"> have no bytes to move}}
func.func @nothing(%data: tensor<5x!gather.bytes<0, "void">>, %indices: tensor<3xi64>) -> tensor<3x!gather.bytes<0, "void">> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5x!gather.bytes<0, "void">>, tensor<3xi64> -> tensor<3x!gather.bytes<0, "void">>
  func.return %r : tensor<3x!gather.bytes<0, "void">>
}
