// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,check-indices{how=staged bits=8}"

// CHECK: -> i64 attributes {{{.*}}gather.most_axis_size = 256 : i64
// CHECK: %positions = memref.alloc(%n_index_run) : memref<?xi8>
// CHECK: %n_outside = gather.loop check_indices(%i) = %{{.*}} to %whole step %c16_1 sum
// CHECK: memref.prefetch %index_run[%ahead], read, locality<3>
// CHECK: vector.store %narrow_lanes, %positions[%i] : memref<?xi8>, vector<16xi8>
// CHECK: gather.loop check_indices_rest(%i_16) = %whole to %n_index_run
// CHECK: memref.store %narrow_16, %positions[%i_16] : memref<?xi8>
// CHECK: scf.if %all_inside
// CHECK: %narrow_17 = memref.load %positions[%place] : memref<?xi8>
// CHECK-NEXT: %wrapped_17 = arith.extui %narrow_17 : i8 to i64
// CHECK-NOT: memref.load %indices
// CHECK: memref.dealloc %positions : memref<?xi8>
func.func @gather(%data: tensor<90x40xf32>, %indices: tensor<90x40xi64>) -> tensor<90x40xf32> {
  %r = gather.gather_elements %data, %indices axis 1 bounds error : tensor<90x40xf32>, tensor<90x40xi64> -> tensor<90x40xf32>
  func.return %r : tensor<90x40xf32>
}
