// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,tile-loops{loops=indices sizes=8},hoist-indices{before=indices_i}"

// CHECK: gather.loop indices_o(%i_o)
// CHECK: %positions = memref.alloca() : memref<8xi32>
// CHECK: gather.loop resolve_indices_i(%i_i) = %i_o to %end
// CHECK: %index = memref.load %indices[%{{.*}}, %i_i]
// CHECK: %place = arith.subi %i_i, %i_o : index
// CHECK: %marked = arith.select %inside, %{{.*}}, %outside : i64
// CHECK: %narrow = arith.trunci %marked : i64 to i32
// CHECK: memref.store %narrow, %positions[%place] : memref<8xi32>
// CHECK: gather.loop indices_i(%i_i_1) = %i_o to %end
// CHECK-NOT: memref.load %indices
// CHECK: %kept = memref.load %positions[%{{.*}}] : memref<8xi32>
// CHECK: %inside_1 = arith.cmpi sge, %{{.*}}, %zero_1 : i64
// CHECK: %clamped_1 = arith.maxsi
// CHECK: gather.loop inner(%j)
// CHECK-NOT: memref.load %indices
// CHECK: arith.select %inside_1
func.func @gather(%data: tensor<9x40xf32>, %indices: tensor<70xi64>) -> tensor<70x40xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds zero : tensor<9x40xf32>, tensor<70xi64> -> tensor<70x40xf32>
  func.return %r : tensor<70x40xf32>
}
