// RUN: gathernest-opt %s -p lower-gather-to-nest --verify-diagnostics

// expected-error@unknown {{expected gather on memrefs; run bufferize-gather first}}
func.func @tensors(%data: tensor<5xi32>, %indices: tensor<3xi64>) -> tensor<3xi32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5xi32>, tensor<3xi64> -> tensor<3xi32>
  func.return %r : tensor<3xi32>
}
