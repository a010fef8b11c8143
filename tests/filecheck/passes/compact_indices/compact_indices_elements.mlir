// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,owner-computes{owners=2},tile-loops{loops=indices sizes=16},compact-indices{loop=indices_i}"

// CHECK: %positions = memref.alloca() : memref<16xi64>
// CHECK-NEXT: %elements = memref.alloca() : memref<16xf32>
// CHECK: gather.loop ordered compact_indices_i(%i_i)
// CHECK: memref.store %position_1, %positions[%listed] : memref<16xi64>
// CHECK-NEXT: memref.store %element, %elements[%listed] : memref<16xf32>
// CHECK: gather.loop ordered indices_i(%k) = %{{.*}} to %listed_end step
// CHECK-NEXT: memref.load %positions[%k] : memref<16xi64>
// CHECK: memref.load %elements[%k] : memref<16xf32>
// CHECK-NEXT: gather.accumulate
// CHECK-NOT: if %
func.func @gather(%grad: tensor<70xf32>, %indices: tensor<70xi64>) -> tensor<9xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds unchecked scale 2.0 : tensor<70xf32>, tensor<70xi64> -> tensor<9xf32>
  func.return %r : tensor<9xf32>
}
