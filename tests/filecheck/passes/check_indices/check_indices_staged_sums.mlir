// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,owner-computes{owners=2 axis=axis},check-indices{how=staged bits=32}"

// CHECK: gather.most_axis_size = 4294967296
// CHECK: %positions = memref.alloc(%n_indices) : memref<?xi32>
// CHECK: gather.loop check_indices
// CHECK: vector.store %narrow_lanes, %positions[%i] : memref<?xi32>, vector<16xi32>
// CHECK: scf.if %all_inside
// CHECK: gather.loop owners
// CHECK-NOT: memref.load %indices
// CHECK: memref.load %positions
// CHECK: gather.accumulate
// CHECK: memref.dealloc %positions
func.func @gather(%grad: tensor<70x40xf32>, %indices: tensor<70xi64>) -> tensor<9x40xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds error : tensor<70x40xf32>, tensor<70xi64> -> tensor<9x40xf32>
  func.return %r : tensor<9x40xf32>
}
