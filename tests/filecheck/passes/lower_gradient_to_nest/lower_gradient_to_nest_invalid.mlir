// RUN: gathernest-opt %s -p lower-gradient-to-nest --verify-diagnostics --split-input-file

// expected-error@unknown {{expected memrefs; run bufferize-gather first}}
func.func @tensors(%grad: tensor<6xf32>, %indices: tensor<6xi64>) -> tensor<5xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero : tensor<6xf32>, tensor<6xi64> -> tensor<5xf32>
  func.return %r : tensor<5xf32>
}

// -----

// expected-error@unknown {{elements are complex<f32>; run erase-element-type first}}
func.func @waves(%grad: memref<6xcomplex<f32>>, %indices: memref<6xi64>, %out: memref<5xcomplex<f32>>) {
  gather.gather_grad %grad, %indices into %out axis 0 batch_dims 0 bounds zero : memref<6xcomplex<f32>>, memref<6xi64>, memref<5xcomplex<f32>>
  func.return
}
