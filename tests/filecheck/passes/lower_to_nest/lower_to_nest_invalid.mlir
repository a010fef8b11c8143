// RUN: gathernest-opt %s -p lower-to-nest --verify-diagnostics --split-input-file

// expected-error@unknown {{expected gather.gather on memrefs; run bufferize-gather first}}
func.func @tensors(%data: tensor<5xi32>, %indices: tensor<3xi64>) -> tensor<3xi32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<5xi32>, tensor<3xi64> -> tensor<3xi32>
  func.return %r : tensor<3xi32>
}

// -----

// expected-error@unknown {{expected gather.gather_grad on memrefs; run bufferize-gather first}}
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

// -----

// expected-error@unknown {{expected gather.gather_reduce on memrefs; run bufferize-gather first}}
func.func @tensors(%data: tensor<5xf32>, %indices: tensor<2x3xi64>) -> tensor<2xf32> {
  %r = gather.gather_reduce %data, %indices bounds zero : tensor<5xf32>, tensor<2x3xi64> -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

// -----

// expected-error@unknown {{elements are complex<f32>; run erase-element-type first}}
func.func @waves(%data: memref<5xcomplex<f32>>, %indices: memref<2x3xi64>, %out: memref<2xcomplex<f32>>) {
  gather.gather_reduce %data, %indices into %out bounds zero : memref<5xcomplex<f32>>, memref<2x3xi64>, memref<2xcomplex<f32>>
  func.return
}
