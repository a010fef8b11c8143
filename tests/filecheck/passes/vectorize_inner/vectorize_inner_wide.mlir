// RUN: gathernest-opt %s -p "nest,drop-unit-loops,vectorize-inner{lanes=2}"

// Elements of 16 bytes have no masks: those that may be nothing are loaded one by one, and stored together.
// CHECK: vector.from_elements
// CHECK-NOT: vector.broadcast
// CHECK: gather.loop inner_rest(%j_{{.*}}) = %c4{{.*}} to %{{.*}} step %c1
func.func @gather(%data: tensor<9x5xcomplex<f64>>, %indices: tensor<70xi64>) -> tensor<70x5xcomplex<f64>> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x5xcomplex<f64>>, tensor<70xi64> -> tensor<70x5xcomplex<f64>>
  func.return %r : tensor<70x5xcomplex<f64>>
}
