// RUN: gathernest-opt %s -p "nest,drop-unit-loops,tile-loops{loops=indices sizes=16},check-indices{how=fused loop=indices_o},stage-result"

// CHECK: %result = memref.alloc(%{{.*}}) : memref<1x1x?x1xi32>
// CHECK: %n_outside = gather.loop indices_o
// CHECK: memref.store %{{.*}}, %result[
// CHECK: scf.if %all_inside{{.*}} {
// CHECK: gather.loop copy_indices_o
func.func @gather(%data: tensor<9xf32>, %indices: tensor<70xi64>) -> tensor<70xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds error : tensor<9xf32>, tensor<70xi64> -> tensor<70xf32>
  func.return %r : tensor<70xf32>
}
