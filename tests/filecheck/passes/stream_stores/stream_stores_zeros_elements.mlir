// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,tile-loops{loops=clear_axis sizes=4096},stream-stores"

// CHECK: %out_rows = memref.collapse_shape %out {{.*}} : memref<1x1x?x1xf32> into memref<1x1x?xf32>
// CHECK: gather.loop clear_axis_i_head
// CHECK: gather.loop clear_axis_i(%axis_i_1) = %aligned
// CHECK: vector.store %{{.*}}, %out_rows[%{{.*}}, %axis_i_1] {alignment = 16 : i64, nontemporal = true}
// CHECK: gather.loop clear_axis_i_rest
func.func @gather(%grad: tensor<70xf32>, %indices: tensor<70xi64>) -> tensor<9xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds clip : tensor<70xf32>, tensor<70xi64> -> tensor<9xf32>
  func.return %r : tensor<9xf32>
}
