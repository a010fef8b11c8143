// RUN: gathernest-opt %s -p collapse-dims --verify-diagnostics --split-input-file

// expected-error@unknown {{expected gather on memrefs; run bufferize-gather first}}
func.func @tensors(%data: tensor<5xi32>, %indices: tensor<3xi64>) -> tensor<3xi32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5xi32>, tensor<3xi64> -> tensor<3xi32>
  func.return %r : tensor<3xi32>
}

// -----

// expected-error@unknown {{data, indices and out must be three different memrefs}}
func.func @same(%data: memref<5xi32>, %out: memref<5xi32>) {
  gather.gather %data, %data into %out axis 0 batch_dims 0 bounds zero : memref<5xi32>, memref<5xi32>, memref<5xi32>
  func.return
}
