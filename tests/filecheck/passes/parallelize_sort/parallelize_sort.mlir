// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,group-indices{loop=indices},parallelize-sort{parts=3}"

// CHECK: %all_ends = arith.muli %n_ends, %{{.*}} : index
// CHECK: %last_part = arith.muli %n_ends, %{{.*}} : index
// CHECK: %share = arith.divui %padded, %{{.*}} : index
// CHECK: %ends = memref.alloc(%all_ends) : memref<?xi64>
// CHECK: gather.loop parallel count_indices_o(%part) = %{{.*}} to %{{.*}} step
// CHECK-NEXT: %own = arith.muli %part, %n_ends : index
// CHECK-NEXT: %first = arith.muli %part, %share : index
// CHECK: gather.loop ordered empty_axis
// CHECK: memref.store %none, %ends[
// CHECK: gather.loop ordered count_indices_i(%count_indices) = %first to %last step
// CHECK: gather.loop ordered end_axis
// CHECK: gather.loop parallel place_indices_o(%part_{{.*}})
// CHECK: gather.loop ordered place_indices_i
// CHECK: memref.store %place, %places[%free] : memref<?xi64>
// CHECK: gather.loop axis(
// CHECK: %{{.*}} = arith.addi %last_part, %axis
// CHECK: gather.loop ordered bag(%k)
func.func @gather(%grad: tensor<70x6xf32>, %indices: tensor<70xi64>) -> tensor<9x6xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds zero scale 2.0 : tensor<70x6xf32>, tensor<70xi64> -> tensor<9x6xf32>
  func.return %r : tensor<9x6xf32>
}
