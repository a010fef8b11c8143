// RUN: gathernest-opt %s -p lower-to-nest

// CHECK: func.func @gather(%grad: {{.*}}, %scale: f32 {gather.scale = 5.000000e-01 : f64})
// CHECK: gather.loop clear_batch(%b) = %{{.*}} to %n_out_batch step
// CHECK-NEXT: gather.loop clear_outer(%o)
// CHECK-NEXT: gather.loop clear_axis(%axis)
// CHECK-NEXT: gather.loop clear_inner(%j)
// CHECK-NEXT: memref.store %nothing, %out[%b, %o, %axis, %j]
// CHECK: gather.loop batch(%b_1) = %{{.*}} to %n_batch step
// CHECK-NEXT: gather.loop outer(%o_1)
// CHECK-NEXT: gather.loop ordered indices(%i)
// CHECK-NEXT: gather.loop inner(%j_1)
// CHECK-NEXT: %index = memref.load %indices[%b_1, %i]
// CHECK-NEXT: %position, %valid = gather.resolve %index within %n_axis bounds zero : i64
// CHECK-NEXT: %element = memref.load %grad[%b_1, %o_1, %i, %j_1]
// CHECK-NEXT: gather.accumulate %element, %out[%b_1, %o_1, %position, %j_1] if %valid
// CHECK: gather.loop scale_batch(%b_2)
// CHECK: %scaled = arith.mulf %total, %scale : f32
func.func @gather(%grad: memref<1x2x42x12xf32>, %indices: memref<1x42xi64>, %out: memref<1x2x5x12xf32>) {
  gather.gather_grad %grad, %indices into %out axis 2 batch_dims 1 bounds zero scale 5.000000e-01 : memref<1x2x42x12xf32>, memref<1x42xi64>, memref<1x2x5x12xf32>
  func.return
}
