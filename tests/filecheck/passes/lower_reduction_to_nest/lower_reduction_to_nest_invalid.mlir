// RUN: gathernest-opt %s -p lower-reduction-to-nest --verify-diagnostics --split-input-file

// expected-error@unknown {{expected memrefs; run bufferize-gather first}}
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
