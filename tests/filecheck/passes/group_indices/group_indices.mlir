// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,group-indices{loop=indices}"

// CHECK: %ends = memref.alloc(%n_ends) : memref<?xi64>
// CHECK-NEXT: %places = memref.alloc(%n_indices) : memref<?xi64>
// CHECK-NEXT: %positions = memref.alloc(%n_indices) : memref<?xi64>
// CHECK: gather.loop ordered empty_axis
// CHECK: gather.loop ordered count_indices
// CHECK: arith.select
// CHECK: memref.store %{{.*}}, %positions[%count_indices] : memref<?xi64>
// CHECK: gather.loop ordered end_axis
// CHECK: gather.loop ordered place_indices
// CHECK-NEXT: %{{.*}} = memref.load %positions[%place_indices] : memref<?xi64>
// CHECK: memref.store %place, %places[%free] : memref<?xi64>
// CHECK: gather.loop clear_axis
// CHECK: gather.loop axis(%axis_1) = %{{.*}} to %n_grouped step
// CHECK: gather.loop ordered bag(%k) = %begin_1 to %end_3 step
// CHECK-NEXT: %place_1 = memref.load %places[%k] : memref<?xi64>
// CHECK: gather.accumulate %element, %out[%{{.*}}, %{{.*}}, %axis_1, %j_1] : f32
// CHECK: memref.dealloc %positions : memref<?xi64>
// CHECK-NEXT: memref.dealloc %places : memref<?xi64>
// CHECK-NEXT: memref.dealloc %ends : memref<?xi64>
// CHECK-NEXT: gather.loop scale_axis
func.func @gather(%grad: tensor<70x6xf32>, %indices: tensor<70xi64>) -> tensor<9x6xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero scale 2.0 : tensor<70x6xf32>, tensor<70xi64> -> tensor<9x6xf32>
  func.return %r : tensor<9x6xf32>
}
