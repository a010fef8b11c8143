// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,tile-loops{loops=indices sizes=8},hoist-indices{before=indices_i},vectorize-inner{lanes=4},stream-stores,parallelize-loops{loops=indices_o}"

// Each iteration has a buffer of its own, and its vectors lie in rows that no other iteration writes.
// CHECK: gather.loop parallel indices_o(
// CHECK: %positions = memref.alloca() : memref<8xi32>
// CHECK: vector.store
func.func @gather(%data: tensor<9x4xf32>, %indices: tensor<50xi64>) -> tensor<50x4xf32> {
  %result = gather.gather %data, %indices axis 0 batch_dims 0 bounds error
      : tensor<9x4xf32>, tensor<50xi64> -> tensor<50x4xf32>
  func.return %result : tensor<50x4xf32>
}
