// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,owner-computes{owners=2},fuse-into-owners,tile-loops{loops=indices sizes=16},parallelize-loops{loops=owners},compact-indices{loop=indices_i},check-indices{how=counted},stage-result"

// CHECK-NOT: gather.fresh_out
// CHECK: %result = memref.alloc(%n_axis{{.*}}) : memref<1x1x?x1xf32>
// CHECK: gather.loop parallel owners
// CHECK: memref.store %nothing, %result[
// CHECK: gather.accumulate %{{.*}}, %result[
// CHECK: memref.store %{{.*}}, %result[
// CHECK: %all_inside = arith.cmpi eq, %n_outside, %none{{.*}} : i64
// CHECK-NEXT: scf.if %all_inside
// CHECK: gather.loop parallel copy_axis_o(%axis_o) = %{{.*}} to %n_axis{{.*}} step %c4096
// CHECK: gather.loop copy_axis_i(%axis{{.*}}) = %axis_o to %end
// CHECK: %[[ELEMENT:.*]] = memref.load %result[
// CHECK-NEXT: memref.store %[[ELEMENT]], %out[
// CHECK: memref.dealloc %result
// CHECK-NEXT: func.return %n_outside : i64
func.func @gather(%grad: tensor<70xf32>, %indices: tensor<70xi64>) -> tensor<9xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds error scale 2.0 : tensor<70xf32>, tensor<70xi64> -> tensor<9xf32>
  func.return %r : tensor<9xf32>
}
