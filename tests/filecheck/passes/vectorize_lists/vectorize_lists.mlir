// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,owner-computes{owners=2},tile-loops{loops=indices sizes=16},compact-indices{loop=indices_i},vectorize-lists{lanes=4}"

// CHECK: %positions = memref.alloca() : memref<20xi64>
// CHECK-NEXT: %elements = memref.alloca() : memref<20xf32>
// CHECK: gather.loop ordered compact_indices_i(%i_i) = %i_o to %whole step
// CHECK: %owned_lanes = vector.from_elements %owned, %owned_1, %owned_2, %owned_3 : vector<4xi1>
// CHECK: vector.compressstore %positions[%listed], %owned_lanes, %{{.*}} : memref<20xi64>, vector<4xi1>, vector<4xi64>
// CHECK-NEXT: vector.compressstore %elements[%listed], %owned_lanes, %{{.*}} : memref<20xf32>, vector<4xi1>, vector<4xf32>
// CHECK-NEXT: %more = vector.reduction <add>, %{{.*}} : vector<4xi64> into i64
// CHECK: gather.loop ordered compact_indices_i_rest(%{{.*}}) = %whole to %end
func.func @gather(%grad: tensor<70xf32>, %indices: tensor<70xi64>) -> tensor<9xf32> {
  %r = gather.gather_grad %grad, %indices axis 0 batch_dims 0 bounds unchecked scale 2.0 : tensor<70xf32>, tensor<70xi64> -> tensor<9xf32>
  func.return %r : tensor<9xf32>
}
