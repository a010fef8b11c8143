// RUN: gathernest-opt %s -p "nest,drop-unit-loops,vectorize-inner{lanes=4}"

// Elements with an index each are not read twice: the two that fill no vector are copied one by one.
// CHECK: vector.from_elements
// CHECK: gather.loop indices_rest(%i_{{.*}}) = %c40 to %{{.*}} step %c1
// CHECK: memref.store
func.func @gather(%data: tensor<9xf32>, %indices: tensor<42xi64>) -> tensor<42xf32> {
  %r = gather.gather %data, %indices axis 0 batch_dims 0 bounds clip : tensor<9xf32>, tensor<42xi64> -> tensor<42xf32>
  func.return %r : tensor<42xf32>
}
